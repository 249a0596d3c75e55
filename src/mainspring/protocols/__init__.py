"""What programs speak with us over standard input and output: editors and programs in any language."""
