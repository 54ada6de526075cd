"""
Transfers of files: from columns of reads to what a report shows of them. Pure, and without SciPy.

What is assumed: transfers of different sandboxes are independent unless their series shows that they are not (see
`stats.dependence`); those of one sandbox are not, and count once. Everything that is called found is found at one error
for all (see `modes`).
"""
