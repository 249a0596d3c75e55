"""Speaking to hosts: connections, proxies, event streams, public pages."""
