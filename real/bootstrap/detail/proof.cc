#include "real/bootstrap/detail/proof.h"

#include <sodium.h>

#include "model/base/bytes.h"
#include "real/executor/infeasible.h"

namespace plumbline::real {

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
