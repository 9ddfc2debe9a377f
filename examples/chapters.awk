# Verses of the `bible` program ("Ge1:1 In the beginning ...") to JSON lines, a chapter a document.
#   held=no   all chapters but every twentieth       held=yes  every twentieth
function flush() {
  if (text != "" && (number % 20 == 10) == (held == "yes")) print "{\"text\":\"" text "\"}"
}
{
  space = index($0, " ")
  chapter = substr($0, 1, index($0, ":") - 1)
  verse = substr($0, space + 1)
  gsub(/\\/, "\\\\", verse)
  gsub(/"/, "\\\"", verse)
  gsub(/\t/, " ", verse)
  if (chapter != last) {
    flush()
    text = verse
    last = chapter
    ++number
  } else {
    text = text "\\n" verse
  }
}
END { flush() }
