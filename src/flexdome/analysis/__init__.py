"""What results say: aggregation over seeds, confidence intervals, growth exponents, paired differences."""
