; rule: shell-injection
(call_expression function: (identifier) @f
  arguments: (arguments . (_) @composed)
  (#any-of? @f "exec" "execSync")) @found
(call_expression function: (member_expression object: (identifier) @o property: (property_identifier) @f)
  arguments: (arguments . (_) @variable)
  (#any-of? @o "child_process" "childProcess" "cp")
  (#any-of? @f "exec" "execSync")) @found
(call_expression function: [(identifier) @f (member_expression property: (property_identifier) @f)]
  arguments: (arguments . (_) @variable (object (pair key: (property_identifier) @k value: (true))))
  (#any-of? @f "spawn" "spawnSync" "execFile" "execFileSync")
  (#eq? @k "shell")) @found

; rule: sql-injection
(template_string (template_substitution)) @found @sql
(binary_expression) @found @sql

; rule: eval
(call_expression function: (identifier) @f
  arguments: (arguments . (_) @variable)
  (#eq? @f "eval")) @found
(new_expression constructor: (identifier) @f
  arguments: (arguments (_) @variable .)
  (#eq? @f "Function")) @found

; rule: markup-injection
(assignment_expression left: (member_expression property: (property_identifier) @p) right: (_) @variable
  (#any-of? @p "innerHTML" "outerHTML")) @found
(augmented_assignment_expression left: (member_expression property: (property_identifier) @p) right: (_) @variable
  (#any-of? @p "innerHTML" "outerHTML")) @found
(call_expression function: (member_expression property: (property_identifier) @f)
  arguments: (arguments (_) (_) @variable)
  (#eq? @f "insertAdjacentHTML")) @found
(call_expression function: (member_expression object: (identifier) @o property: (property_identifier) @f)
  arguments: (arguments . (_) @variable)
  (#eq? @o "document")
  (#any-of? @f "write" "writeln")) @found

; rule: tls-unchecked
(pair key: (property_identifier) @k value: (false)
  (#eq? @k "rejectUnauthorized")) @found
(assignment_expression left: (member_expression property: (property_identifier) @p)
  (#eq? @p "NODE_TLS_REJECT_UNAUTHORIZED")) @found
