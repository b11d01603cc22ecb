# SPDX-License-Identifier: Apache-2.0
# Shared by tools/demo and tools/check: from a fresh machine to build/weir. Source it in the repository's
# root. Every step says what it does and, when it cannot, the one line that mends it.

packages=(meson ninja-build gcc libc6-dev pkg-config python3 zstd llvm-19-dev clang-19 lld-19 libisl-dev
  libprotobuf-c-dev protobuf-c-compiler libonnx-dev libcriterion-dev libonnx-testdata libpng-dev)

seconds() { date +%s; }

# Runs a command quietly; shows the end of its output when it fails.
quietly() {
  local log=$1
  shift
  if ! "$@" >"$log" 2>&1; then
    tail -n 40 "$log"
    echo "failed: $* (all of its output: $log)"
    return 1
  fi
}

install_packages() {
  local missing=() p
  for p in "${packages[@]}"; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || missing+=("$p")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get)
  if [ "$(id -u)" != 0 ]; then
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
      apt=(sudo "${apt[@]}")
    else
      echo "packages are missing; as root, run:"
      echo "  apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
      return 1
    fi
  fi
  echo "installing ${missing[*]}"
  mkdir -p build
  quietly build/apt.log "${apt[@]}" update || return 1
  quietly build/apt.log "${apt[@]}" install -y --no-install-recommends "${missing[@]}"
}

# build_weir FOLDER OPTIONS...: configures on first use, then builds.
build_weir() {
  local folder=$1
  shift
  mkdir -p "$folder"
  if [ ! -e "$folder/build.ninja" ]; then
    quietly "$folder/configure.log" meson setup "$folder" "$@" || return 1
  fi
  quietly "$folder/build.log" ninja -C "$folder"
}
