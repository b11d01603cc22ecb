#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Manual pages and shell completions, made of what `weir --help` and `weir VERB --help` print.

    pages.py WEIR FOLDER     writes weir.1, weir-VERB.1 of every verb, weir.bash and _weir into FOLDER

The help texts in tools/weir/main.c are the one source. A line of theirs is a synopsis ("weir VERB ..."), an
option with its text two spaces or more to the right, the rest of such a text (further in), or a remark.
"""
import pathlib
import re
import subprocess
import sys

OPTION = re.compile(r"^  (-\S+(?: \S+)*)(?:  +(\S.*))?$")
WORDS = re.compile(r"([a-z][\w-]*)((?:, [a-z][\w-]*)*),? or ([a-z][\w-]*)(?:$|:)")
PASSES = "$(weir explain passes 2>/dev/null | cut -d' ' -f1)"
SECTIONS = """.SH EXIT STATUS
.TP
0
done
.TP
1
the model or an input is at fault
.TP
2
usage
.TP
3
a fault of weir's
"""


class Option:
    """One option: its name with dashes, the word for its value ("" for a switch), its text."""

    def __init__(self, head, text):
        self.head, self.text = head, text
        self.name, _, self.value = head.partition(" ")

    def choices(self):
        """The words that the value may be, where the help lists them."""
        if re.fullmatch(r"[a-z]\w*(\|[a-z]\w*)*", self.value):
            return self.value.split("|")
        listed = WORDS.match(re.sub(r" \([^()]*\)", "", self.text))
        return re.findall(r"[a-z][\w-]*", " ".join(listed.groups())) if self.value and listed else []


class Verb:
    def __init__(self, name, what, usage):
        self.name, self.what = name, what
        self.synopsis, self.options, self.remarks = [], [], []
        for line in usage.splitlines():
            self.take(line)

    def take(self, line):
        option = OPTION.match(line)
        if line.startswith("weir "):
            synopsis, *remark = re.split(r"  +", line, maxsplit=1)
            self.synopsis.append((synopsis, remark[0] if remark else ""))
        elif option:
            self.add_options(option.group(1), option.group(2) or "")
        elif line.startswith(" " * 20) and self.options:
            self.options[-1].text += " " + line.strip()
        else:
            self.remarks.append(line.strip())

    def operands(self):
        """What may stand behind the verb, where its synopsis lists words: as words of a shell."""
        ask = {"CODE": "$(weir explain codes 2>/dev/null | cut -d' ' -f1)", "PASS": PASSES}
        listed = [word for line, _ in self.synopsis for part in line.split()[2:] if "|" in part for word in part.split("|")]
        return " ".join(ask.get(word, word) for word in listed if word in ask or re.fullmatch("[a-z]+", word))

    def add_options(self, head, text):
        """"--rtol R --atol A" are two."""
        for one in re.split(r" (?=-)", head):
            self.options.append(Option(one, text))


def ask(weir, *words):
    return subprocess.run([weir, *words], capture_output=True, text=True, check=True).stdout


def read_verbs(weir):
    rows = re.findall(r"^  weir (\w+) +(.*)$", ask(weir, "--help"), re.M)
    return [Verb(name, what, ask(weir, name, "--help")) for name, what in rows]


# ---- manual pages ------------------------------------------------------------------------------------------


def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text[:1] in ".'" else text


def page(name, what, version, body):
    return (f'.TH {name.upper()} 1 "" "weir {version}" "Weir"\n.SH NAME\n{name} \\- {roff(what)}\n' + body + SECTIONS)


def verb_page(verb, version):
    body = ".SH SYNOPSIS\n"
    for line, remark in verb.synopsis:
        body += f".B {roff(line)}\n" + (f"({roff(remark)})\n" if remark else "") + ".br\n"
    if verb.options:
        body += ".SH OPTIONS\n"
    for option in verb.options:
        value = f" \\fI{roff(option.value)}\\fR" if option.value else ""
        body += f".TP\n\\fB{roff(option.name)}\\fR{value}\n{roff(option.text)}\n"
    if verb.remarks:
        body += ".SH NOTES\n" + roff(" ".join(verb.remarks)) + "\n"
    body += ".SH SEE ALSO\n.BR weir (1)\n"
    return page(f"weir-{verb.name}", verb.what, version, body)


def main_page(verbs, version):
    body = ".SH SYNOPSIS\n.B weir\n.I VERB\n[\\fIoptions\\fR]\n.SH DESCRIPTION\nThe verbs, each with a page of its own:\n"
    for verb in verbs:
        body += f".TP\n.BR weir\\-{verb.name} (1)\n{roff(verb.what)}\n"
    body += ".SH FILES\n.TP\n$XDG_CACHE_HOME/weir, else ~/.cache/weir\nthe cache of objects\n"
    return page("weir", "compile ONNX models to shared libraries", version, body)


# ---- completions -------------------------------------------------------------------------------------------


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def bash(verbs):
    out = ["# bash completion for weir; made of its help texts", "_weir() {",
           '    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} words=', "    COMPREPLY=()",
           "    if [ $COMP_CWORD = 1 ]; then",
           f"        COMPREPLY=($(compgen -W '{' '.join(v.name for v in verbs)} --help --version' -- \"$cur\"))",
           "        return", "    fi", '    case "${COMP_WORDS[1]} $prev" in']
    for verb in verbs:
        for option in verb.options:
            if option.choices():
                out.append(f"    '{verb.name} {option.name}') words='{' '.join(option.choices())}' ;;")
            elif option.value == "PASS":
                out.append(f"    '{verb.name} {option.name}') words={PASSES} ;;")
    out += ["    esac", '    case "${COMP_WORDS[1]} $cur" in', "    *' '-*) ;;"]
    out += [f"    '{verb.name} '*) words=\"$words {verb.operands()}\" ;;" for verb in verbs if verb.operands()]
    out += ["    esac", '    if [ -n "$words" ]; then',
            '        COMPREPLY=($(compgen -W "$words" -- "$cur"))', "        return", "    fi",
            '    case "$cur" in', "    -*)", '        case "${COMP_WORDS[1]}" in']
    out += [f"        {verb.name}) words='{' '.join(o.name for o in verb.options)} --help' ;;" for verb in verbs]
    out += ["        esac", '        COMPREPLY=($(compgen -W "$words" -- "$cur"))', "        ;;",
            "    *)", '        COMPREPLY=($(compgen -f -- "$cur"))', "        ;;", "    esac", "}",
            "complete -o filenames -F _weir weir", ""]
    return "\n".join(out)


def zsh_option(option):
    text = re.sub(r"([\[\]:\\])", r"\\\1", option.text)
    spec = f"*{option.name}[{text}]"
    if option.choices():
        spec += f":{option.value.lower()}:({' '.join(option.choices())})"
    elif option.value:
        action = {"FILE": "_files", "DIR": "_files -/", "FILE.o": "_files",
                  "PASS": f"({PASSES})"}.get(option.value, "")
        spec += f":{re.sub('[^a-z]+', ' ', option.value.lower()).strip()}:{action}"
    return quoted(spec)


def zsh(verbs):
    out = ["#compdef weir", "# zsh completion for weir; made of its help texts", "_weir() {", "    local -a verbs",
           "    verbs=("]
    out += [f"        {quoted(verb.name + ':' + verb.what)}" for verb in verbs]
    out += ["    )", "    if (( CURRENT == 2 )); then", "        _describe verb verbs", "        return", "    fi",
            "    local verb=$words[2]", "    shift words", "    (( CURRENT-- ))", "    case $verb in"]
    for verb in verbs:
        specs = [zsh_option(option) for option in verb.options] + [quoted("--help[list what it takes]"),
                                                                  quoted(f"*:word:({verb.operands()})" if verb.operands() else "*:file:_files")]
        out += [f"    {verb.name})", "        _arguments \\"] + [f"            {spec} \\" for spec in specs[:-1]]
        out += [f"            {specs[-1]}", "        ;;"]
    return "\n".join(out + ["    esac", "}", '_weir "$@"', ""])


def main():
    weir, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    verbs, version = read_verbs(weir), ask(weir, "--version").split()[1]
    (folder / "weir.1").write_text(main_page(verbs, version))
    for verb in verbs:
        (folder / f"weir-{verb.name}.1").write_text(verb_page(verb, version))
    (folder / "weir.bash").write_text(bash(verbs))
    (folder / "_weir").write_text(zsh(verbs))


if __name__ == "__main__":
    main()
