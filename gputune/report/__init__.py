"""Ways of showing findings; nothing here measures or judges."""
