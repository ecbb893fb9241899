"""What many comparisons say together: slow drift over releases, level shifts over nights, the lab's own noise."""
