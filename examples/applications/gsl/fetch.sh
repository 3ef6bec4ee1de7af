#!/bin/sh
# Debian's GSL into a folder, its source with the spec beside it. Nothing is installed. Usage: fetch.sh FOLDER
set -e
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1/apt/partial"
cd "$1"
for kind in deb deb-src; do echo "$kind http://deb.debian.org/debian bookworm main"; done > sources.list
apt="-qq -o Dir::Etc::sourcelist=$PWD/sources.list -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists=$PWD/apt"
apt-get $apt update
apt-get $apt download libgsl27 libgslcblas0
for package in lib*.deb; do dpkg -x "$package" library; done
apt-get $apt source --download-only gsl
mkdir -p gsl work/gsl
tar -xf gsl_*.orig.tar.* -C gsl --strip-components=1
cp gsl/*.h gsl/*/gsl_*.h work/gsl/
cp gsl/cblas/cblas.h gsl/cblas/error_cblas*.h work/
# The body of the function stands in a header: together they are one text whose loops can be changed. What reports wrong
# arguments and ends the process is another function of the library, so that here they end it by themselves.
sed -e '/"error_cblas_l3.h"/a #define cblas_xerbla(...) __builtin_trap()' -e '/#include "source_gemm_r.h"/{r gsl/cblas/source_gemm_r.h' -e 'd}' gsl/cblas/dgemm.c > work/dgemm.c
cp "$here"/dgemm.yaml "$here"/product.py work/
echo "next: cd $1/work && tune dgemm.yaml"
