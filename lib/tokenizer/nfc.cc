#include "tokenizer/nfc.h"

#include "tokenizer/text_forms.h"

namespace mt::tokenizer {

bool plainly_nfc(std::string_view text) { return is_plainly(text, NormalForm::nfc); }

std::string_view to_nfc(std::string_view text, std::string& buffer) {
  if (plainly_nfc(text)) return text;
  buffer.clear();
  append_normal_form(text, NormalForm::nfc, buffer);
  return buffer;
}

}  // namespace mt::tokenizer
