"""The demo, and the embedded broker it runs on."""
