"""What an approval is and what may happen to it."""
