#!/usr/bin/env bash
# Every Megatron flag has one state: supported (a row of mt-train's options), accepted or refused (cmd/options/megatron_table.cc),
# and man/mt-megatron-flags.7 says what the table says.   megatron_flags.sh [--write]   (--write makes the page)
set -euo pipefail
page="$MT_TEST_SOURCE/man/mt-megatron-flags.7"
table="$("$MT_TEST_BIN/mt-train" --megatron-flags)"
bad=0
complain() { echo "$*"; bad=1; }

twice="$(cut -f 1 <<< "$table" | sort | uniq -d)"
[ -z "$twice" ] || complain "flags that stand twice in the table: $twice"
both="$(awk -F '\t' '$2 ~ /,/ { print $1 }' <<< "$table")"
[ -z "$both" ] || complain "options of mt-train that the table calls accepted or refused; move them to a supported group: $both"
neither="$(awk -F '\t' '$2 == "none" { print $1 }' <<< "$table")"
[ -z "$neither" ] || complain "flags that the table calls supported and that are no options of mt-train: $neither"
missing="$(comm -13 <(cut -f 1 <<< "$table" | sort) \
  <(grep -v '^#' "$MT_TEST_SOURCE/tests/cli/megatron_flags.txt" | tr ' ' '\n' | sed 's/^/--/' | sort -u))"
[ -z "$missing" ] || complain "flags of Megatron's without a state: $missing"
silent="$(awk -F '\t' '($2 == "accepted" && $4 == "") || ($2 == "refused" && ($4 == "" || $5 == "")) { print $1 }' <<< "$table")"
[ -z "$silent" ] || complain "flags without a reason, or refused with nothing to take instead: $silent"

make_page() {
  cat << 'HEAD'
.\" Made by tests/lint/megatron_flags.sh --write from cmd/options/megatron_table.cc.
.TH MT\-MEGATRON\-FLAGS 7 "" "mt" "mt manual"
.nh
.ad l
.SH NAME
mt\-megatron\-flags \- what mt\-train does with each of Megatron's flags
.SH DESCRIPTION
Each flag of Megatron\-LM's training programs is in one of three states.
.BR mt\-train (1)
.B \-\-megatron\-flags
prints the same list, a flag a line.
HEAD
  awk -F '\t' '
    function roff(s) { gsub(/\\/, "\\e", s); gsub(/-/, "\\-", s); return s }
    function flush() {
      if (names == "") return
      print ".PP\n" names
      if (state != "supported") print ".RS 4\n" words "\n.RE"
      names = ""
    }
    {
      if ($2 != state || $4 "\t" $5 != key) flush()
      if ($2 != state) {
        print ".SH " toupper($2) " FLAGS"
        if ($2 == "supported") print "Options of\n.BR mt\\-train (1),\nwhere each is described."
        if ($2 == "accepted")
          print "Nothing has to be done for these; a line on standard error says why. Where values are listed, another is refused."
        if ($2 == "refused") print "An error, with status 3, told with every other problem of the command line."
      }
      state = $2; key = $4 "\t" $5
      values = $2 == "supported" ? "" : $3
      if (values !~ /^X/) gsub(/ /, ", ", values)
      names = names (names == "" ? "" : "\n") ".B " roff($1 (values == "" ? "" : " " values))
      text = toupper(substr($4, 1, 1)) substr($4, 2) "."
      if ($5 != "" && $2 == "refused") text = text " Instead: " $5 "."
      words = roff(text)
    }
    END { flush() }' <(sort -s -t $'\t' -k 2,2 <<< "$table" | awk -F '\t' '
      { order = $2 == "supported" ? 1 : $2 == "accepted" ? 2 : 3; print order "\t" $0 }' | sort -s -n -k 1,1 | cut -f 2-)
  printf '.SH SEE ALSO\n.BR mt\\-train (1),\n.BR mt (7)\n'
}
if [ "${1:-}" = --write ]; then
  make_page > "$page"
else
  diff <(make_page) "$page" > /dev/null || complain "man/mt-megatron-flags.7 differs from the table: tests/lint/megatron_flags.sh --write"
fi
exit "$bad"
