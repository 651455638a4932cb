// A framework's library, by its name: asks the environment, as its static constructors would.
#include <stdlib.h>

const char* Ask(const char* name);
const char* Ask(const char* name) {
  const char* volatile answer = getenv(name);  // not a tail call: it is this library that asks
  return answer;
}
