import setuptools

# Where there is no git, which pbr asks for the files of packages
setuptools.setup(setup_requires=["pbr>=6.1.1"], pbr=True, package_data={"": ["templates/*"]})
