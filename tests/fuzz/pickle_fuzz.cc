// Pickles: what is read is a graph whose every value can be looked at.

#include "base/error.h"
#include "foreign/pickle.h"
#include "fuzz/targets.h"

namespace mt::fuzz {

void pickle(Bytes input) {
  try {
    const Pickle p = Pickle::parse(std::as_bytes(input), "fuzz");
    MT_CHECK(p.size() <= input.size(), "{} of {} bytes", p.size(), input.size());
    for (Pickle::Id id = 0; id < p.num_values(); ++id) {
      const PickleValue v(p, id);
      MT_CHECK(!v.describe().empty(), "a value without words");
      for (std::size_t i = 0; i < v.size(); ++i) v[i].kind();
      for (std::size_t i = 0; i < v.num_entries(); ++i) v.key(i).kind(), v.entry(i).kind();
      v.attribute("dtype");
    }
    plain_json(p.root());
  } catch (const Error& error) {
    MT_CHECK(!error.message().empty(), "an error without words");
  }
}

}  // namespace mt::fuzz
