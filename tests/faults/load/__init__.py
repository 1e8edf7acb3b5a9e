"""Write during faults: events, changes, transactions and rubbish."""
