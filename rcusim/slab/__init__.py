"""Slab allocators: kmalloc classes, slab layouts, and classic SLAB with its arrays and lists."""
