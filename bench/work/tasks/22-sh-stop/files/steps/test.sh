echo tested
