"""What there is to say of each kind of op, said once: requests, answers, reports, its form in a history."""
