"""The duties of a nova service: its record among nova's services, and host discovery."""
