"""Campaigns with a known truth: for calibrating the gates, for power, and for planning."""
