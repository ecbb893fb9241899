"""From run directories to the numbers that the gates judge."""
