; rule: eval
(command name: (command_name) @f argument: (_) @variable
  (#eq? @f "eval")) @found

; rule: shell-injection
(command name: (command_name) @f argument: (word) @c . argument: (_) @variable
  (#match? @f "^(sh|bash|dash|zsh|ksh)$")
  (#match? @c "^-[a-z]*c$")) @found

; rule: unchecked-download
(pipeline (command name: (command_name) @a) (command name: (command_name) @b)
  (#any-of? @a "curl" "wget")
  (#match? @b "^(sudo|sh|bash|dash|zsh|python3?|perl|node)$")) @found

; rule: tls-unchecked
(command name: (command_name) @f argument: (word) @w
  (#eq? @f "curl")
  (#match? @w "^(-[a-zA-Z]*k[a-zA-Z]*|--insecure)$")) @found
(command name: (command_name) @f argument: (word) @w
  (#eq? @f "wget")
  (#eq? @w "--no-check-certificate")) @found
