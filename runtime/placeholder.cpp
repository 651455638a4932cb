namespace stalloc::runtime {}
