# The end-to-end tests; see msamp_e2e in ../CMakeLists.txt.
