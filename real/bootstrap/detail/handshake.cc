#include "real/bootstrap/detail/handshake.h"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <utility>

#include "model/base/bytes.h"
#include "real/executor/infeasible.h"

namespace plumbline::real {
namespace {

// What the frames of a handshake mean. The processes of a job must have the same.
constexpr std::uint32_t protocol_version = 2;

struct Greeting {
  std::string job, program, inputs;
};

HandshakeStep refuse(std::string reason) {
  const std::string answer = "rank 0 refuses this process: it " + reason;
  return {.answer = Frame{Frame::Kind::abort, answer}, .refused = std::move(reason)};
}

// The reason is not sent: the other process is not of the job, or broken.
HandshakeStep close(std::string reason) { return {.refused = std::move(reason)}; }

std::string_view next_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(line.size() + 1, text.size()));
  return line;
}

// Returns the first line in which the inputs differ.
std::string difference(std::string_view theirs, std::string_view own) {
  while (!theirs.empty() || !own.empty()) {
    const std::string_view there = next_line(theirs), here = next_line(own);
    if (there != here)
      return fmt::format("has other inputs: '{}' where rank 0 has '{}'", shown(std::string(there)), here);
  }
  return "has other inputs";
}

}  // namespace

std::string shown(const std::string& text) {
  constexpr std::size_t most = 400;
  std::string clean = text.substr(0, most);
  std::ranges::replace_if(
      clean, [](unsigned char letter) { return std::iscntrl(letter) != 0; }, ' ');
  return clean;
}

HandshakeStep FirstHandshake::take(const Frame& frame) {
  if (frame.kind == Frame::Kind::hello && !hello_) return take_hello(frame);
  if (frame.kind == Frame::Kind::proof && hello_ && !proved_) return take_proof(frame);
  if (frame.kind == Frame::Kind::greeting && proved_) return take_greeting(frame);
  return close("sends what is not of the protocol");
}

HandshakeStep FirstHandshake::take_hello(const Frame& frame) {
  std::uint32_t protocol = 0;
  model::ByteReader(frame.bytes).get(protocol);
  hello_ = model::from_bytes<Hello>(frame.bytes);
  if (protocol != protocol_version || !hello_) return refuse("is of another version of plumbline");
  challenge_ = draw_nonce();
  return {.answer = Frame{Frame::Kind::challenge, model::to_bytes(challenge_)}};
}

HandshakeStep FirstHandshake::take_proof(const Frame& frame) {
  if (!is_proof(frame.bytes, proof_of(own_.token, Prover::other, *hello_, challenge_)))
    return refuse("does not have the token of this job");
  if (hello_->ranks != own_.ranks)
    return refuse(fmt::format("is one of {} ranks, but rank 0 one of {}", hello_->ranks, own_.ranks));
  if (hello_->rank < 1 || hello_->rank >= own_.ranks)
    return refuse(fmt::format("claims to be rank {} of {}", hello_->rank, own_.ranks));
  proved_ = true;
  return {.answer = Frame{Frame::Kind::proof, proof_of(own_.token, Prover::first, *hello_, challenge_)}};
}

HandshakeStep FirstHandshake::take_greeting(const Frame& frame) const {
  const auto greeting = model::from_bytes<Greeting>(frame.bytes);
  if (!greeting) return refuse("sends what is not of the protocol");
  if (greeting->job != own_.job)
    return refuse(fmt::format("is of job '{}', rank 0 of job '{}'", shown(greeting->job), own_.job));
  if (greeting->program != own_.program)
    return refuse(fmt::format("is {}, rank 0 is {}", shown(greeting->program), own_.program));
  if (greeting->inputs != own_.inputs) return refuse(difference(greeting->inputs, own_.inputs));
  return {.done = true};
}

OtherHandshake::OtherHandshake(Identity own)
    : own_(std::move(own)), hello_{protocol_version, own_.rank, own_.ranks, draw_nonce()} {}

Frame OtherHandshake::hello() const { return {Frame::Kind::hello, model::to_bytes(hello_)}; }

HandshakeStep OtherHandshake::take(const Frame& frame) {
  if (frame.kind == Frame::Kind::abort) return {.refused = shown(frame.bytes)};
  if (frame.kind == Frame::Kind::challenge && !challenge_) return take_challenge(frame);
  if (frame.kind == Frame::Kind::proof && challenge_ && !proved_) return take_proof(frame);
  if (frame.kind == Frame::Kind::welcome && proved_) return {.done = true};
  return close("it sends what is not of the protocol");
}

HandshakeStep OtherHandshake::take_challenge(const Frame& frame) {
  challenge_ = model::from_bytes<Nonce>(frame.bytes);
  if (!challenge_) return close("it sends what is not of the protocol");
  return {.answer = Frame{Frame::Kind::proof, proof_of(own_.token, Prover::other, hello_, *challenge_)}};
}

HandshakeStep OtherHandshake::take_proof(const Frame& frame) {
  proved_ = is_proof(frame.bytes, proof_of(own_.token, Prover::first, hello_, *challenge_));
  if (!proved_) return close("it does not have the token of this job");
  return {.answer = Frame{Frame::Kind::greeting, model::to_bytes(Greeting{own_.job, own_.program, own_.inputs})}};
}

static_assert(proof_bytes == crypto_auth_hmacsha256_BYTES);

model::Result<void> prepare_proofs() {
  if (sodium_init() < 0) return infeasible("this system has no random numbers for the control channel");
  return {};
}

Nonce draw_nonce() {
  Nonce nonce{};
  randombytes_buf(nonce.data(), nonce.size());
  return nonce;
}

std::string proof_of(std::string_view token, Prover prover, const Hello& hello, const Nonce& challenge) {
  const std::string message = "plumbline control channel" + model::to_bytes(prover, hello, challenge);
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, reinterpret_cast<const unsigned char*>(token.data()), token.size());
  crypto_auth_hmacsha256_update(&state, reinterpret_cast<const unsigned char*>(message.data()), message.size());
  std::array<unsigned char, proof_bytes> proof{};
  crypto_auth_hmacsha256_final(&state, proof.data());
  return {reinterpret_cast<const char*>(proof.data()), proof.size()};
}

bool is_proof(std::string_view bytes, std::string_view expected) {
  return bytes.size() == expected.size() && sodium_memcmp(bytes.data(), expected.data(), expected.size()) == 0;
}

}  // namespace plumbline::real
