// What strangers send to either end of the control channel: frames, both ends of the handshake, and the greeting of a
// rank that has the token.
#include <string>

#include "real/bootstrap/detail/frame.h"
#include "real/bootstrap/detail/handshake.h"
#include "tests/fuzz/targets.h"

namespace plumbline::fuzz {

void take_control_bytes(std::string_view input) {
  using namespace real;
  static const Identity own{0, 4, "a token of the job", "job", "plumbline", "pipeline = 2\n"};
  static const Identity third{3, 4, "a token of the job", "job", "plumbline", "pipeline = 2\n"};
  const std::string bytes(input);
  FrameReader reader(most_greeting_bytes);
  FirstHandshake first(own), greeted(own);
  OtherHandshake other(third);
  reader.add(bytes);
  while (const auto frame = reader.next()) {
    first.take(*frame);
    other.take(*frame);
  }
  require(first.rank() == 0 && !other.proved(), "a stranger has proved a token");
  OtherHandshake rank(third);
  const auto proof = rank.take(*greeted.take(rank.hello()).answer).answer;
  require(greeted.take(*proof).refused.empty(), "a rank of the job is refused");
  greeted.take({Frame::Kind::greeting, bytes});
}

}  // namespace plumbline::fuzz
