"""The node itself and its network ports, from /proc and /sys."""
