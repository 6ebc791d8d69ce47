"""The worked cases of the documentation, made anew: ``tools/berth worked-cases``.

- cloud: a small cloud in which builds can be made to fail
- cases: what makes them fail, and what berth-explain is asked then
- plan_cloud, plans: a cloud with instances, and what berth-plan says of it
"""
