"""What can be watched from outside: metrics, health, logs."""
