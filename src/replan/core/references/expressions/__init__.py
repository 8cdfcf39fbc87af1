"""Expressions in references, `${= a.output.price * b.output.rate }`: numbers, texts and dates, worked out without side effects.

`grammar` reads them, `values` says what may be computed with what, `functions` what there is to call, `work` works them out, and
`kinds` tells beforehand what cannot fit.
"""
