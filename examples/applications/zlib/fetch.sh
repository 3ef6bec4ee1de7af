#!/bin/sh
# Debian's source of zlib into a folder, with the spec beside it. Nothing is installed. Usage: fetch.sh FOLDER
set -e
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1/apt/partial"
cd "$1"
echo "deb-src http://deb.debian.org/debian bookworm main" > sources.list
apt="-qq -o Dir::Etc::sourcelist=$PWD/sources.list -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists=$PWD/apt"
apt-get $apt update
apt-get $apt source --download-only zlib
mkdir -p zlib
tar -xf zlib_*.orig.tar.* -C zlib --strip-components=1
cp "$here"/crc32.yaml "$here"/checksums.py zlib/
echo "next: cd $1/zlib && tune crc32.yaml"
