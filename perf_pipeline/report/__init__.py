"""What people read: terminal, Markdown, HTML, pictures, JSON."""
