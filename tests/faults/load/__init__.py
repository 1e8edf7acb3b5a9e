"""What is written during faults: events, changes, transactions and rubbish."""
