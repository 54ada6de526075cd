"""What is offered, and when: schedules, keys, payloads and the choices of clients. Pure."""
