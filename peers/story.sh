# Sourced by the stories of command line tools. `feature NAME FUNCTION` runs a function whose commands must all work,
# and writes what came of it to the file that PEER_RESULTS names.

feature() {
    local output code
    set +e
    output=$(set -euo pipefail && "$2" 2>&1)
    code=$?
    set -e
    if [ "$code" = 0 ]; then
        printf '{"feature":"%s","ok":true}\n' "$1" >>"$PEER_RESULTS"
    else
        printf '{"feature":"%s","ok":false,"error":"%s"}\n' "$1" "$(tail -n 5 <<<"$output" | plain)" >>"$PEER_RESULTS"
    fi
}

# Text that can stand in a JSON string as it is.
plain() {
    tr '\n\t' '; ' | tr -d '\\"\000-\037'
}

# Fails unless the text is exactly this.
is() {
    [ "$1" = "$2" ] || { echo "got: $1, expected: $2" && return 1; }
}

# Fails unless the text contains this.
has() {
    [[ $1 = *"$2"* ]] || { echo "got: $1, expected it to contain: $2" && return 1; }
}

# Fails unless the command fails and says this.
refused() {
    local words=$1 output
    shift
    if output=$("$@" 2>&1); then
        echo "not refused: $*: $output" && return 1
    fi
    has "$output" "$words"
}

# Whether there are controllers behind the server; kube-apiserver alone has none.
controllers() { [ "$PEER_SERVER" != kube-apiserver ]; }
