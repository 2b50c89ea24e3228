// The handshake of a connection to rank 0, apart from sockets: each end takes frames and returns what to send.
//
//   other rank                                        rank 0
//     hello: protocol, rank, ranks, nonce       ->
//                                               <-     challenge: nonce
//     proof: HMAC(token, other, both nonces)    ->
//                                               <-     proof: HMAC(token, first, both nonces)
//     greeting: job, program, inputs            ->
//                                               <-     welcome, once all ranks have come
//
// Rank 0 refuses with `abort` and the reason. Before its proof no process gets or sends anything but what stands here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/base/error.h"
#include "real/bootstrap/detail/frame.h"

namespace plumbline::real {

// Two processes prove to each other that both have the token of a job, which itself does not travel: by HMAC-SHA-256
// over numbers that each has drawn for this connection alone.
constexpr std::size_t proof_bytes = 32;
using Nonce = std::array<std::uint8_t, proof_bytes>;

// What a process states of itself before it has proved anything.
struct Hello {
  std::uint32_t protocol = 0;
  std::int32_t rank = 0, ranks = 0;
  Nonce nonce{};
};

// Prepares the random numbers. The error: this system has none.
model::Result<void> prepare_proofs();

// Returns random numbers that nobody can predict.
Nonce draw_nonce();

// Proofs of rank 0 differ from those of the others, so that neither can be sent back to whom it came from.
enum class Prover : std::uint8_t { first, other };

// Returns the proof of the connection that began with `hello` and rank 0's `challenge`.
std::string proof_of(std::string_view token, Prover prover, const Hello& hello, const Nonce& challenge);

// Returns whether a proof is the expected one, in a time that does not depend on where they differ.
bool is_proof(std::string_view bytes, std::string_view expected);

// What the processes of a job have in common, and the rank of this one.
struct Identity {
  std::int32_t rank = 0, ranks = 1;
  std::string token;    // a secret of the job
  std::string job;      // its name; empty: the starter gives none
  std::string program;  // version and revision
  std::string inputs;   // lines, such as those of the plan
};

// What follows from a frame: what to send; whether the handshake is over; why the other process is refused.
struct HandshakeStep {
  std::optional<Frame> answer = {};
  bool done = false;
  std::string refused = {};  // empty: it is not
};

// The largest payload before a process has proved that it has the token, and of a greeting.
constexpr std::uint64_t most_stranger_bytes = 512, most_greeting_bytes = std::uint64_t{1} << 20;

// Rank 0's end. It is done when the rank has shown that it belongs to the job; rank 0 then sends the welcome.
class FirstHandshake {
 public:
  // `own` must outlive the object.
  explicit FirstHandshake(const Identity& own) : own_(own) {}

  HandshakeStep take(const Frame& frame);
  // Returns the largest payload of the next frame.
  std::uint64_t most_bytes() const { return proved_ ? most_greeting_bytes : most_stranger_bytes; }
  // Returns the rank of the other process once it has proved that it has the token; before, 0.
  std::int32_t rank() const { return proved_ ? hello_->rank : 0; }

 private:
  HandshakeStep take_hello(const Frame& frame);
  HandshakeStep take_proof(const Frame& frame);
  HandshakeStep take_greeting(const Frame& frame) const;

  const Identity& own_;
  std::optional<Hello> hello_;
  Nonce challenge_{};
  bool proved_ = false;
};

// The end of any other rank, which sends hello() first. It is done at the welcome.
class OtherHandshake {
 public:
  explicit OtherHandshake(Identity own);

  Frame hello() const;
  HandshakeStep take(const Frame& frame);
  // Returns whether rank 0 has proved that it has the token.
  bool proved() const { return proved_; }

 private:
  HandshakeStep take_challenge(const Frame& frame);
  HandshakeStep take_proof(const Frame& frame);

  Identity own_;
  Hello hello_;
  std::optional<Nonce> challenge_;
  bool proved_ = false;
};

// Returns the text without what would steer a terminal, cut to a few lines' length: a stranger may have written it.
std::string shown(const std::string& text);

}  // namespace plumbline::real
