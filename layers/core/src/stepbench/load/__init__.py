"""What is offered and when: schedules, payloads, and the engine that keeps to them."""
