; rule: shell-injection
(call_expression function: (selector_expression field: (field_identifier) @f)
  arguments: (argument_list (interpreted_string_literal) @s . (interpreted_string_literal) @c . (_) @variable)
  (#any-of? @f "Command" "CommandContext")
  (#match? @s "^\"(/bin/)?(sh|bash|cmd)\"$")
  (#match? @c "c\"$")) @found

; rule: sql-injection
(binary_expression) @found @sql
(call_expression function: (selector_expression field: (field_identifier) @f)
  (#eq? @f "Sprintf")) @found @sql

; rule: tls-unchecked
(keyed_element (literal_element (identifier) @k) (literal_element (true))
  (#eq? @k "InsecureSkipVerify")) @found
(assignment_statement left: (expression_list (selector_expression field: (field_identifier) @k)) right: (expression_list (true))
  (#eq? @k "InsecureSkipVerify")) @found

; rule: markup-injection
(call_expression function: (selector_expression operand: (identifier) @o field: (field_identifier) @f)
  arguments: (argument_list . (_) @variable)
  (#eq? @o "template")
  (#any-of? @f "HTML" "JS" "HTMLAttr")) @found
