; rule: markup-injection
(jsx_attribute (property_identifier) @p (jsx_expression (object (pair value: (_) @variable)))
  (#eq? @p "dangerouslySetInnerHTML")) @found
