; rule: shell-injection
(call function: [(attribute attribute: (identifier) @f) (identifier) @f]
  arguments: (argument_list . (_) @variable (keyword_argument name: (identifier) @k value: (true)))
  (#any-of? @f "run" "call" "check_call" "check_output" "Popen" "create_subprocess_shell")
  (#eq? @k "shell")) @found
(call function: (attribute object: (identifier) @o attribute: (identifier) @f)
  arguments: (argument_list . (_) @variable)
  (#eq? @o "os")
  (#any-of? @f "system" "popen")) @found
(call function: (attribute attribute: (identifier) @f)
  arguments: (argument_list . (_) @variable)
  (#any-of? @f "getoutput" "getstatusoutput" "create_subprocess_shell")) @found

; rule: sql-injection
(string (interpolation)) @found @sql
(binary_operator left: (_) @left) @found @sql
(call function: (attribute object: (string) attribute: (identifier) @f)
  (#eq? @f "format")) @found @sql

; rule: eval
(call function: (identifier) @f
  arguments: (argument_list . (_) @variable)
  (#any-of? @f "eval" "exec")) @found

; rule: unsafe-load
(call function: (attribute object: (identifier) @o attribute: (identifier) @f)
  arguments: (argument_list) @a
  (#eq? @o "yaml")
  (#any-of? @f "load" "load_all")
  (#not-match? @a "Safe|BaseLoader")) @found
(call function: (attribute object: (identifier) @o attribute: (identifier) @f)
  (#eq? @o "yaml")
  (#any-of? @f "unsafe_load" "unsafe_load_all")) @found

; rule: unsafe-pickle
(call function: (attribute object: (identifier) @o attribute: (identifier) @f)
  arguments: (argument_list . (_) @variable)
  (#any-of? @o "pickle" "cPickle" "dill" "cloudpickle" "marshal")
  (#any-of? @f "load" "loads")) @found

; rule: tls-unchecked
(call
  arguments: (argument_list (keyword_argument name: (identifier) @k value: (false)))
  (#any-of? @k "verify" "verify_ssl")) @found
(call function: (attribute object: (identifier) @o attribute: (identifier) @f)
  (#eq? @o "ssl")
  (#eq? @f "_create_unverified_context")) @found
(assignment right: (attribute object: (identifier) @o attribute: (identifier) @f)
  (#eq? @o "ssl")
  (#eq? @f "CERT_NONE")) @found
(assignment left: (attribute attribute: (identifier) @f) right: (false)
  (#eq? @f "check_hostname")) @found

; rule: markup-injection
(call function: [(identifier) @f (attribute attribute: (identifier) @f)]
  arguments: (argument_list . (_) @composed)
  (#any-of? @f "Markup" "mark_safe" "render_template_string")) @found
