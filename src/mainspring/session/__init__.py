"""What people command and watch: one journal, one running turn, one inbox."""
