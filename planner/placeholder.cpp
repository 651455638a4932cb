namespace stalloc::planner {}
