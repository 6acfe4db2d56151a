"""hugetlbfs and device-dax: memory that programs map by pages of one size."""
