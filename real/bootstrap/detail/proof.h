// How two processes prove to each other that both have the token of a job, which itself does not travel: HMAC-SHA-256
// over numbers that each has drawn for this connection alone.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "model/base/error.h"

namespace plumbline::real {

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

}  // namespace plumbline::real
