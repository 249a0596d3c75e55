; rule: unbounded-write
(call_expression function: (identifier) @f (#eq? @f "gets")) @found
(call_expression function: (identifier) @f
  arguments: (argument_list . (_) . (_) @variable)
  (#any-of? @f "strcpy" "strcat" "stpcpy" "wcscpy" "wcscat")) @found
(call_expression function: (identifier) @f
  arguments: (argument_list . (_) . (string_literal) @s)
  (#any-of? @f "sprintf" "vsprintf")
  (#match? @s "%[-0-9]*s")) @found
(call_expression function: (identifier) @f
  arguments: (argument_list (string_literal) @s)
  (#any-of? @f "scanf" "fscanf" "sscanf")
  (#match? @s "%(s|\\[)")) @found

; rule: shell-injection
(call_expression function: (identifier) @f
  arguments: (argument_list . (_) @variable)
  (#any-of? @f "system" "popen")) @found

; rule: format-string
(call_expression function: (identifier) @f
  arguments: (argument_list . (_) @variable .)
  (#any-of? @f "printf" "syslog")) @found
(call_expression function: (identifier) @f
  arguments: (argument_list . (_) . (_) @variable .)
  (#any-of? @f "fprintf" "sprintf")) @found
