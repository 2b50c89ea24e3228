// Parameter counts of the shipped models compared with those published with their weights.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "model/architecture/metrics.h"
#include "model/base/text_file.h"
#include "model/layers/key_value_cache.h"
#include "model/layers/recurrence.h"
#include "tests/support/architectures.h"

namespace plumbline::model {
namespace {

using tests::architecture;

struct PublishedCount {
  const char* model;
  double parameters;  // exact
  const char* source;
};

// Published exactly, unless the row has it by the dimensions: the index of the safetensors weights on Hugging Face
// states metadata.total_size, two bytes a parameter in BF16 or FP16; or the count itself is on the model card. Each
// also follows from the dimensions, with H hidden, L layers, V vocabulary, I intermediate, h heads, k key-value heads,
// d head, E experts, F their width:
//   Llama, Mistral     2VH + H + L ((h + 2k)dH + hdH + 3HI + 2H)
//   Mixtral            2VH + H + L ((h + 2k)dH + hdH + E (3HI + H) + 2H)
//   Qwen2              2VH + H + L ((h + 2k)d(H + 1) + hdH + 3HI + 2H)
//   Qwen2 MoE          its MLP: E (3HF + H) + 3HI' + H with I' of the shared expert and the last H its gate
//   Qwen3              2VH + H + L ((h + 2k)dH + hdH + 2d + 3HI + 2H), or E (3HF + H) in place of 3HI
//   GPT-2              (V + P)H + 2H + L (12HH + 13H), P positions
//   GPT-NeoX           2VH + 2H + L (12HH + 13H)
//   Gemma              VH + H + L ((h + 2k)dH + hdH + 3HI + 4H), Gemma 3 + 2d a layer
//   gpt-oss            2VH + H + L ((h + 2k)d(H + 1) + hdH + H + h + E (H + 1 + 3HF + 2F + H) + 2H)
//   MPT                VH + H + L (12HH + 2H)
//   Gated DeltaNet     H (2Kd + 2Vd + 2V) + VdH + 4 (2Kd + Vd) + 2V + d in place of attention, K key and V value heads;
//                      attention with a gate H (2h + 2k)d + hdH + 2d
//   Kimi Delta         3HVd + VdH + H (2d + V) + 2dVd + 12Vd + V(d + 1) + d in place of attention, V heads
//   Mamba-2            H (2Vd + 2Kn + V) + VdH + 5 (2Kn + Vd) + 3V + Vd, states of n
//   Mamba-1            3HC + C (2R + 3n + 7) + R + 2n in place of attention, C channels, time steps of rank R
//   DeepSeek-V2-Lite   2VH + H + L (attention + 2H) + 3HI + (L - 1) ((E + 2) 3HF + EH),
//                      attention = Hh(dn + dr) + H(c + dr) + c + ch(dn + dv) + h dv H
const PublishedCount counts[] = {
    {"llama-2-7b", 6738415616, "meta-llama/Llama-2-7b-hf: 13,476,831,232 bytes"},
    // 2*32000*8192 + 8192 + 80 * (80*128*8192 + 8192*8192 + 3*8192*28672 + 2*8192)
    {"llama-2-70b", 68976648192, "by the dimensions of arXiv 2307.09288; the card of Llama-2-70b-hf says 69B"},
    {"llama-3-8b", 8030261248, "meta-llama/Meta-Llama-3-8B: 16,060,522,496 bytes"},
    {"llama-3-405b", 405853388800, "by the dimensions of arXiv 2407.21783, table 3, which says 405B"},
    {"llama-3-70b", 70553706496, "meta-llama/Meta-Llama-3-70B: 141,107,412,992 bytes"},
    {"mistral-7b", 7241732096, "mistralai/Mistral-7B-v0.1: 14,483,464,192 bytes"},
    {"mixtral-8x7b", 46702792704, "mistralai/Mixtral-8x7B-v0.1: 93,405,585,408 bytes"},
    {"mixtral-8x22b", 140620634112, "mistralai/Mixtral-8x22B-v0.1: 281,241,268,224 bytes"},
    {"qwen2-7b", 7615616512, "Qwen/Qwen2-7B: 15,231,233,024 bytes"},
    {"qwen2.5-72b", 72706203648, "Qwen/Qwen2.5-72B: 145,412,407,296 bytes"},
    {"qwen2-57b-a14b", 57408658944, "Qwen/Qwen2-57B-A14B: safetensors total 57,408,658,944"},
    {"qwen3-8b", 8190735360, "Qwen/Qwen3-8B: 16,381,470,720 bytes"},
    {"qwen3-32b", 32762123264, "Qwen/Qwen3-32B: 65,524,246,528 bytes"},
    {"qwen3-30b-a3b", 30532122624, "Qwen/Qwen3-30B-A3B: 61,064,245,248 bytes"},
    {"qwen3-235b-a22b", 235093634560, "Qwen/Qwen3-235B-A22B: 470,187,269,120 bytes"},
    // (50257 + 1024)*1600 + 2*1600 + 48*(12*1600^2 + 13*1600)
    {"gpt2-xl", 1557611200, "by the dimensions of the GPT-2 report, table 2, which rounds to 1542M"},
    // (50257 + 2048)*12288 + 2*12288 + 96*(12*12288^2 + 13*12288)
    {"gpt3-175b", 174604259328, "by the dimensions of arXiv 2005.14165, table 2.1: 175.0B"},
    {"gpt-neox-20b", 20554567680, "model card of EleutherAI/gpt-neox-20b: 20,554,567,680"},
    {"mpt-7b", 6649286656, "mosaicml/mpt-7b: 13,298,573,312 bytes"},
    // 95 * 692,076,544 + 2 * 102400 * 8192 + 8192
    {"deepseek-67b", 67425001472, "by the dimensions of arXiv 2401.02954, which says 67B"},
    {"deepseek-v2", 235741434880, "by the dimensions of arXiv 2405.04434, which says 236B"},
    {"deepseek-v3", 671026404352, "by the dimensions of arXiv 2412.19437, which says 671B"},
    {"deepseek-v2-lite", 15706484224, "deepseek-ai/DeepSeek-V2-Lite: 31,412,968,448 bytes"},
    {"gemma-2-9b", 9241705984, "by the dimensions of google/gemma-2-9b; the card shows 9.24B"},
    {"gemma-2-27b", 27227128320, "by the dimensions of google/gemma-2-27b; the card shows 27.2B"},
    {"gemma-3-1b", 999885952, "by the dimensions of google/gemma-3-1b-pt; the card shows 1.0B"},
    {"gemma-3-27b", 27009346304, "the text model of google/gemma-3-27b-pt, by the dimensions; 27.4B with vision"},
    // In each sixth layer (2h + k)d'H without values, k = 4 or 2 and d' = 512, else (2h + 2k)dH; 2d and 4H of norms.
    // With experts an MLP next to them, EH + 3EHF, 4H of norms and E scales.
    {"gemma-4-31b", 30697345280, "by the dimensions of google/gemma-4-31B-it, whose card says 30.7B"},
    {"gemma-4-26b-a4b", 25233141760, "by the dimensions of google/gemma-4-26B-A4B-it, whose card says 25.2B"},
    // Next to a table of VLP entries the stream's projection HLP, a gate and a projection 2HP of each layer, and norms
    // of 5H; the last 20 and 18 layers have no keys and values, and those of E2B MLPs twice as wide.
    {"gemma-4-e2b", 4628569344, "the text model, by the dimensions of google/gemma-4-E2B-it; 5.1B with encoders"},
    {"gemma-4-e4b", 7463013376, "the text model, by the dimensions of google/gemma-4-E4B-it; 8B with encoders"},
    {"gpt-oss-20b", 20914757184, "openai/gpt-oss-20b: arXiv 2508.10925, table 1: 20.91B"},
    {"gpt-oss-120b", 116829156672, "openai/gpt-oss-120b: arXiv 2508.10925, table 1: 116.83B"},
    {"llama-4-scout", 107769861120, "the text model, by the dimensions; the card says 109B with vision"},
    {"llama-4-maverick", 400711848960, "the text model, by the dimensions; the card says 400B"},
    // Without 160 selection biases a layer and the layer of multi-token prediction, with which the index has 358B.
    {"glm-4.5", 352797814784, "by the dimensions of zai-org/GLM-4.5; the card says 355B"},
    {"glm-4.5-air", 106852245504, "by the dimensions of zai-org/GLM-4.5-Air; the card says 106B"},
    {"kimi-k2", 1026408209408, "by the dimensions of arXiv 2507.20534, which rounds to 1.04T"},
    // Lightning attention of 64 heads in seven of eight layers: 4HVd + VdH + Vd in place of attention.
    {"minimax-m1", 456089655296, "by the dimensions of MiniMaxAI/MiniMax-M1-80k, whose card says 456B"},
    {"minimax-m2", 228689748992, "by the dimensions of MiniMaxAI/MiniMax-M2, whose card says 230B"},
    // With an indexer of H (5 * 128) + 256 in 57 layers; with the vision encoder about 427B. No selection biases.
    {"minimax-m3", 426174565632, "the text model of MiniMaxAI/MiniMax-M3, by the dimensions; the card says 428B"},
    {"qwen3-next-80b-a3b", 79674391296, "by the dimensions of Qwen/Qwen3-Next-80B-A3B-Instruct, whose card says 80B"},
    {"qwen3.5-35b-a3b", 34660610688, "the text model of Qwen/Qwen3.5-35B-A3B, by the dimensions; the name says 35B"},
    // V3 and in each layer an indexer: 1536*64*128 + 7168*(128 + 64) + 2*128.
    {"deepseek-v3.2", 671026404352 + 61 * (1536 * 8192 + 7168 * 192 + 256), "by the dimensions of arXiv 2512.02556"},
    // Main layers without selection biases and tables of token ids. Each layer H q + q + q h d + H d + d + h d o + g o
    // H
    // + h and 2H, with q and o of the latents and g groups; 2 (24 nH + 27) of n = 4 streams; entries 2H d + 128d +
    // d or 4H d + 8d + d and of the indexer 4H i + 8i + i + q h_i i + H h_i; at the end 4 nH + 5.
    {"deepseek-v4-flash", 284332230231, "by the dimensions of arXiv 2606.19348, which says 284B"},
    // With its module of prediction, experts of two parameters a byte, scales, tables and biases the index of the
    // weights has 861,608,274,846 entries.
    {"deepseek-v4-pro", 1572997179491, "the tensors of deepseek-ai/DeepSeek-V4-Pro; arXiv 2606.19348 says 1.6T"},
    {"glm-5", 743911199232, "by the dimensions of zai-org/GLM-5, whose card says 744B"},
    // Without 256 selection biases a layer of experts: 20 layers of Kimi Delta Attention and 7 of latent attention, of
    // Hh(dn + dr) + H(c + dr) + c + ch(dn + dv) + h dv H; the first layer's MLP is dense.
    {"kimi-linear-48b-a3b", 49122675072, "by the dimensions of arXiv 2510.26692: 48B without embeddings"},
    // The tensors of moonshotai/Kimi-K3 without vision, without 896 selection biases a layer of experts, and with 96
    // decays a layer where the file has 128.
    {"kimi-k3", 2779484393568, "by the dimensions of arXiv 2607.24653, which says 2.8T"},
    // Without 128 selection biases a layer of experts.
    {"nemotron-3-nano-30b-a3b", 31577937344, "by the dimensions of arXiv 2512.20848, which says 31.6B"},
    // Without 512 selection biases a layer of experts, of E (2ZF) + 2HZ with a latent of Z.
    {"nemotron-3-super-120b-a12b", 120668687360, "by the dimensions of nvidia/NVIDIA-Nemotron-3-Super-120B-A12B: 120B"},
    {"nemotron-3-ultra-550b-a55b", 549308968960, "by the dimensions of nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B: 550B"},
    // Llama's attention and MLP, and Mamba-2, in each layer.
    {"falcon-h1-7b", 7585648736, "by the dimensions of tiiuae/Falcon-H1-7B-Base; arXiv 2507.22448 says 7.59B"},
    // Selection biases are left out.
    {"glm-4.7-flash", 29943390976, "by the dimensions of zai-org/GLM-4.7-Flash, whose card says 30B"},
    {"mistral-small-4-119b", 118972826624, "the text model of mistralai/Mistral-Small-4-119B-2603, by the dimensions"},
    {"hy3-295b-a21b", 295033528320, "by the dimensions of tencent/Hy3, whose card says 295B"},
    {"solar-open-100b", 102651793408, "by the dimensions of upstage/Solar-Open-100B, whose card says 102.6B"},
    {"k-exaone-236b-a23b", 236571150336, "by the dimensions of LGAI-EXAONE/K-EXAONE-236B-A23B"},
    {"ernie-4.5-21b-a3b", 21825436160, "by the dimensions of baidu/ERNIE-4.5-21B-A3B-PT, whose card says 21B"},
    {"trinity-mini-26b-a3b", 26123970560, "by the dimensions of arcee-ai/Trinity-Mini, whose card says 26B"},
    // The index of Zyphra/Zamba2-1.2B, of other dimensions, has 1,215,064,704.
    {"zamba2-7b", 7356749648, "by the dimensions of Zyphra/Zamba2-7B"},
    // 9 layers with 4 heads of keys and values and 39 with 8 and 64 sinks; no selection biases.
    {"mimo-v2-flash-309b-a15b", 308778768832, "by the dimensions of XiaomiMiMo/MiMo-V2-Flash, whose card says 309B"},
    // Lightning attention with norms of queries and keys in four of five layers; no selection biases.
    {"ring-mini-linear-2.0", 16423443456, "by the dimensions of inclusionAI/Ring-mini-linear-2.0: 16.4B"},
    // 35 layers of Kimi Delta Attention with gates that are projected whole, 5HVd + HV in place of the low ranks, and 7
    // of latent attention with a gate of each head, Hh; no selection biases.
    {"ling-3.0-flash-124b-a5b", 124414191072, "by the dimensions of inclusionAI/Ling-3.0-flash, whose card says 124B"},
    // 18 layers with 4HH + 3H in place of attention, two dense ones; no selection biases.
    {"lfm2-8b-a1b", 8339929856, "by the dimensions of LiquidAI/LFM2-8B-A1B, whose card says 8.3B"},
    // 10 layers with 48 heads and 30 with 64, each with a column of its gate.
    {"laguna-xs-33b-a3b", 33442607104, "by the dimensions of poolside/Laguna-XS.2, whose card says 33B"},
    // 12 layers with 64 heads and 33 with 96, each with a column of its gate; no selection biases.
    {"step-3.5-flash-196b-a11b", 196956118272, "by the dimensions of stepfun-ai/Step-3.5-Flash, whose card says 196B"},
    // Queries by way of 2048 columns with a norm: H (2048 + 2d) + 2048 (hd + 1) + hdH in place of attention.
    {"step-3-321b-a38b", 316294538240, "by the dimensions of arXiv 2507.19427; the card's 321B have vision"},
    // Norms of queries and keys with one weight for each of their columns: 2H a layer.
    {"olmoe-1b-7b", 6919161856, "by the dimensions of arXiv 2409.02060, which says 6.92B"},
    // LayerNorm, and biases of attention and of the output.
    {"phi-3.5-moe-42b-a7b", 41873153344, "by the dimensions of microsoft/Phi-3.5-MoE-instruct, whose card says 42B"},
    {"smollm3-3b", 3075098624, "by the dimensions of HuggingFaceTB/SmolLM3-3B, whose card says 3B"},
    // VH + H + L ((h + 2k)dH + hdH + 3HI + H): one norm a layer, without bias.
    {"command-a-111b", 111057580032, "by the dimensions of CohereLabs/c4ai-command-a-03-2025, whose card says 111B"},
    // Llama's with 2HI in place of 3HI; norms of queries and keys, and two parameters of each activation.
    {"apertus-8b", 8053338176, "by the dimensions of arXiv 2509.14233, which says 8B"},
    // 96 * 3,454,083,072 + 2 * 18432, and 2 * 256000 * 18432
    {"nemotron-4-340b", 341029195776, "by the dimensions of arXiv 2406.11704: 331.6B and 9.4B of embeddings"},
    {"bamba-9b", 9780235392, "by the dimensions of ibm-ai-platform/Bamba-9B, whose card says 9.78B"},
    // 56 halves of layers with an MLP of 12288, 28 of them with experts, whose router has 768 columns.
    {"longcat-flash-560b-a27b", 560664958976, "by the dimensions of meituan-longcat/LongCat-Flash-Chat: 560B"},
    {"jamba-1.5-mini", 51570323328, "by the dimensions of ai21labs/AI21-Jamba-1.5-Mini, whose card says 52B"},
    {"jamba-1.5-large", 398555145696, "by the dimensions of ai21labs/AI21-Jamba-1.5-Large; the card cuts it to 398B"},
    // VH + H + L (3HC + C (2R + 3n + 7) + H) + VH: no gains of norms.
    {"falcon-mamba-7b", 7272665088, "by the dimensions of arXiv 2410.05355, which says 7.27B"},
    {"codestral-mamba-7b", 7285403648, "mistral.ai, Codestral Mamba: 7,285,403,648 parameters"},
    {"baichuan-2-7b", 7505973248, "by the dimensions of arXiv 2309.10305"},
    {"baichuan-2-13b", 13896668160, "by the dimensions of arXiv 2309.10305"},
    {"granite-4.0-h-small", 32207337984, "by the dimensions of ibm-granite/granite-4.0-h-small, whose card says 32B"},
};

std::string test_name(std::string name) {
  for (char& c : name)
    if (c == '-' || c == '.') c = '_';
  return name;
}

class ParameterCount : public testing::TestWithParam<PublishedCount> {};

TEST_P(ParameterCount, IsThePublishedOne) {
  EXPECT_EQ(model_metrics(architecture(GetParam().model), 1024).parameters, GetParam().parameters) << GetParam().source;
}

INSTANTIATE_TEST_SUITE_P(Published, ParameterCount, testing::ValuesIn(counts),
                         [](const auto& parameter) { return test_name(parameter.param.model); });

// Billions of parameters that a token uses, as published. Mistral and Qwen count the whole embedding table, DeepSeek
// does not; plumbline counts the one row that is read.
struct PublishedActive {
  const char* model;
  double billions;
  double rounding;  // half of the last published digit
  bool whole_table;
  const char* source;
};
const PublishedActive active[] = {
    {"mixtral-8x7b", 12.9, 0.05, true, "mistral.ai, Mixtral of experts: 12.9B of 46.7B"},
    {"mixtral-8x22b", 39, 0.5, true, "mistral.ai, Cheaper, Better, Faster, Stronger: 39B of 141B"},
    {"qwen2-57b-a14b", 14, 0.5, true, "arXiv 2407.10671, table 1: 14B of 57B"},
    // 3.353 B by the dimensions: the card truncates the second digit.
    {"qwen3-30b-a3b", 3.3, 0.06, true, "model card of Qwen/Qwen3-30B-A3B: 3.3B of 30.5B"},
    {"qwen3-235b-a22b", 22, 0.5, true, "model card of Qwen/Qwen3-235B-A22B: 22B of 235B"},
    {"deepseek-v2", 21, 0.5, false, "arXiv 2405.04434, abstract: 21B of 236B"},
    {"deepseek-v2-lite", 2.4, 0.06, false, "arXiv 2405.04434, appendix B: 2.4B of 15.7B"},
    {"kimi-k2", 32.6, 0.6, true, "arXiv 2507.20534, table 2: 32.6B of 1.04T"},
    {"kimi-linear-48b-a3b", 3, 0.5, false, "arXiv 2510.26692: 3B of 48B"},
    {"minimax-m2", 10, 0.6, false, "card of MiniMaxAI/MiniMax-M2: 10B of 230B"},
    {"llama-4-scout", 17, 0.5, true, "card of Llama-4-Scout-17B-16E: 17B of 109B"},
    {"deepseek-v4-flash", 13, 0.5, false, "arXiv 2606.19348: 13B of 284B"},
    {"deepseek-v4-pro", 49, 0.5, false, "arXiv 2606.19348: 49B of 1.6T"},
    {"gemma-4-26b-a4b", 3.8, 0.05, false, "card of google/gemma-4-26B-A4B-it: 3.8B of 25.2B"},
    {"gemma-4-e2b", 2.3, 0.05, false, "card of google/gemma-4-E2B-it: 2.3B effective"},
    {"gemma-4-e4b", 4.5, 0.15, false, "card of google/gemma-4-E4B-it: 4.5B effective"},
    {"glm-5", 40, 0.9, false, "card of zai-org/GLM-5: 40B of 744B"},
    {"nemotron-3-nano-30b-a3b", 3.6, 0.05, true, "arXiv 2512.20848: 3.2B of 31.6B, 3.6B with embeddings"},
    {"nemotron-3-super-120b-a12b", 12, 0.5, false, "card of Nemotron-3-Super-120B-A12B: 12B of 120B"},
    {"nemotron-3-ultra-550b-a55b", 55, 0.5, false, "card of Nemotron-3-Ultra-550B-A55B: 55B of 550B"},
    {"glm-4.7-flash", 3, 0.6, false, "card of zai-org/GLM-4.7-Flash: 30B-A3B"},
    {"hy3-295b-a21b", 21, 0.5, true, "card of tencent/Hy3: 21B of 295B"},
    {"solar-open-100b", 12, 0.5, true, "card of upstage/Solar-Open-100B: 12B of 102.6B"},
    {"k-exaone-236b-a23b", 23, 0.5, false, "card of K-EXAONE-236B-A23B: 23B of 236B"},
    {"ernie-4.5-21b-a3b", 3, 0.5, false, "card of baidu/ERNIE-4.5-21B-A3B-PT: 3B of 21B"},
    {"trinity-mini-26b-a3b", 3, 0.5, false, "card of arcee-ai/Trinity-Mini: 3B of 26B"},
    {"mimo-v2-flash-309b-a15b", 15, 0.5, false, "card of XiaomiMiMo/MiMo-V2-Flash: 15B of 309B"},
    {"ling-3.0-flash-124b-a5b", 5.1, 0.05, false, "card of inclusionAI/Ling-3.0-flash: 5.1B of 124B"},
    {"laguna-xs-33b-a3b", 3, 0.5, false, "card of poolside/Laguna-XS.2: 3B of 33B"},
    {"lfm2-8b-a1b", 1.5, 0.06, false, "card of LiquidAI/LFM2-8B-A1B: 1.5B of 8.3B"},
    {"step-3-321b-a38b", 38, 0.5, false, "card of stepfun-ai/step3: 38B of 321B"},
    {"step-3.5-flash-196b-a11b", 11, 0.5, false, "card of stepfun-ai/Step-3.5-Flash: 11B of 196B"},
    {"olmoe-1b-7b", 1.3, 0.05, true, "arXiv 2409.02060: 1.3B of 6.9B"},
    {"phi-3.5-moe-42b-a7b", 6.6, 0.05, true, "card of microsoft/Phi-3.5-MoE-instruct: 6.6B of 42B"},
    {"granite-4.0-h-small", 9, 0.5, false, "card of ibm-granite/granite-4.0-h-small: 9B of 32B"},
    {"longcat-flash-560b-a27b", 27, 0.5, false, "arXiv 2509.01322: 27B on average, of 18.6B to 31.3B"},
    {"jamba-1.5-mini", 12, 0.5, false, "arXiv 2408.12570: 12B"},
    {"jamba-1.5-large", 94, 0.5, false, "arXiv 2408.12570: 94B"},
    {"llama-4-maverick", 17, 0.5, true, "card of Llama-4-Maverick-17B-128E: 17B of 400B"},
};

class ActiveParameters : public testing::TestWithParam<PublishedActive> {};

TEST_P(ActiveParameters, AreThePublishedOnes) {
  const Architecture model = architecture(GetParam().model);
  const double rest_of_table = static_cast<double>((model.vocabulary - 1) * model.hidden_size);
  const double counted = model_metrics(model, 1024).active_parameters + (GetParam().whole_table ? rest_of_table : 0);
  EXPECT_NEAR(counted / 1e9, GetParam().billions, GetParam().rounding) << GetParam().source;
}

INSTANTIATE_TEST_SUITE_P(Published, ActiveParameters, testing::ValuesIn(active),
                         [](const auto& parameter) { return test_name(parameter.param.model); });

TEST(EmbeddingParameters, AreWhatPublishedCountsLeaveOut) {
  // Model cards: Qwen2.5-72B 72.7B, 70.0B without embeddings; Qwen3-8B 8.2B and 6.95B; Qwen3-30B-A3B 30.5B and 29.9B.
  const auto without = [](const char* name) {
    const ModelMetrics metrics = model_metrics(architecture(name), 1024);
    return (metrics.parameters - metrics.embedding_parameters) / 1e9;
  };
  EXPECT_NEAR(without("qwen2.5-72b"), 70.0, 0.25);  // 70.21 by the dimensions
  EXPECT_NEAR(without("qwen3-8b"), 6.95, 0.005);
  EXPECT_NEAR(without("qwen3-30b-a3b"), 29.9, 0.05);
  // arXiv 2501.08313: 45.9B of 456B are active, without the embedding and the output projection.
  const Architecture minimax = architecture("minimax-m1");
  const auto head = static_cast<double>((minimax.vocabulary + 1) * minimax.hidden_size);
  EXPECT_NEAR((model_metrics(minimax, 1024).active_parameters - head) / 1e9, 45.9, 0.05);
  // arXiv 2406.11704: 331.6B, and 9.4B of embeddings.
  EXPECT_NEAR(without("nemotron-4-340b"), 331.6, 0.05);
  // arXiv 2510.19338: 957M are active, without the embedding and the output projection.
  const Architecture ring = architecture("ring-mini-linear-2.0");
  const auto ends = static_cast<double>((ring.vocabulary + 1) * ring.hidden_size);
  EXPECT_NEAR((model_metrics(ring, 1024).active_parameters - ends) / 1e6, 957, 0.5);
  // arXiv 2510.26692: 48B.
  EXPECT_NEAR(without("kimi-linear-48b-a3b"), 48, 0.5);
}

TEST(DeepSeekV3, ParametersFollowFromTheDimensions) {
  const double attention =
      7168.0 * 1536 + 1536 + 1536.0 * 128 * 192 + 7168.0 * 576 + 512 + 512.0 * 128 * 256 + 128.0 * 128 * 7168;
  const double norms = 2 * 7168;
  const double expert = 3.0 * 7168 * 2048;
  const double dense_layer = attention + norms + 3.0 * 7168 * 18432;
  const double moe_layer = attention + norms + 257 * expert + 256.0 * 7168;
  const double ends = 2.0 * 129280 * 7168 + 7168;
  const ModelMetrics metrics = model_metrics(architecture("deepseek-v3"), 4096);
  EXPECT_EQ(metrics.parameters, 3 * dense_layer + 58 * moe_layer + ends);
  // Activated: 8 of 256 experts; of the embedding the row that a token looks up. 36.6 B, published as 37 B
  // (arXiv 2412.19437, abstract); with the whole table it would be 37.6 B.
  EXPECT_EQ(metrics.active_parameters,
            3 * dense_layer + 58 * (moe_layer - 248 * expert) + 129280.0 * 7168 + 7168 + 7168);
  EXPECT_NEAR(metrics.active_parameters, 37e9, 0.5e9);
  // The module of multi-token prediction: a MoE layer, the projection of two streams, three norms. Published
  // as 11.5 B without the shared embedding and head (README of the weights).
  EXPECT_EQ(metrics.prediction_parameters, moe_layer + 2.0 * 7168 * 7168 + 3 * 7168);
  EXPECT_NEAR(metrics.prediction_parameters, 11.5e9, 0.01 * 11.5e9 + 0.05e9);
  // Card of tencent/Hy3: 3.8 B.
  EXPECT_NEAR(model_metrics(architecture("hy3-295b-a21b"), 4096).prediction_parameters, 3.8e9, 0.06e9);
}

TEST(DeepSeekV3, TrainingFlopsPerToken) {
  // Consistent with arXiv 2505.09343, table 4: MFU 43.73 % (non-causal) and 38.94 % (causal) of 989 TFLOP/s
  // on 2,048 GPUs at 15360 * 4096 tokens in 19.926 s, i.e. 280.5 and 249.8 GFLOP per token; by the
  // dimensions 281.15 and 250.45.
  const ModelMetrics metrics = model_metrics(architecture("deepseek-v3"), 4096);
  EXPECT_NEAR(metrics.flops_per_token, 281.15e9, 0.005 * 281.15e9);
  EXPECT_NEAR(metrics.flops_per_token_causal, 250.45e9, 0.005 * 250.45e9);
  // Six per activated matrix parameter, and attention over 4096 keys: 3 * 2 * 4096 * 128 * (192 + 128) per layer.
  const double matrices = metrics.active_parameters - 7168 - 61 * (2 * 7168 + 1536 + 512) - 7168;
  const double attention = 61 * 6.0 * 4096 * 128 * 320;
  EXPECT_NEAR(metrics.flops_per_token, 6 * matrices + attention, 1e3);
  EXPECT_NEAR(metrics.flops_per_token_causal, 6 * matrices + attention / 2, 1e3);
}

// Two halves of attention and an MLP for each of 28 layers, of which one has 8 experts and scores 768.
TEST(LongCatFlash, TrainingFlopsFollowFromTheDimensions) {
  constexpr double h = 6144, s = 4096;
  const double attention = h * 1536 + 1536 * 64 * 192.0 + h * 576 + 512 * 64 * 256.0 + 64 * 128 * h;
  const double experts = 768 * h + 8 * 3 * h * 2048;
  const double matrices = 56 * (attention + 3 * h * 12288) + 28 * experts + 131072 * h;
  const double scores = 3 * 56 * 2 * (192 + 128) * 64 * s / 2;
  const double counted = model_metrics(architecture("longcat-flash-560b-a27b"), 4096).flops_per_token_causal;
  EXPECT_NEAR(counted, 6 * matrices + scores, 1e-9 * counted);
}

TEST(DenseModels, EveryParameterIsActive) {
  for (const char* name : {"deepseek-67b", "llama-3-8b", "llama-3-405b"}) {
    const Architecture a = architecture(name);
    const ModelMetrics metrics = model_metrics(a, 8192);
    const auto rows = static_cast<double>((a.vocabulary - 1) * a.hidden_size);  // of the table, not looked up
    EXPECT_EQ(metrics.active_parameters, metrics.parameters - rows) << name;
    EXPECT_EQ(metrics.prediction_parameters, 0) << name;
  }
}

// arXiv 2205.05198, appendix A, eq. 7: 72 B L s h^2 (1 + s / 6h + v / 12 h L) FLOPs of a step, attention not causal.
TEST(Gpt3, TrainingFlopsPerTokenAreThoseOfTheMegatronPapers) {
  const double h = 12288, layers = 96, s = 2048, v = 50257;
  const double expected = 72 * layers * h * h * (1 + s / (6 * h) + v / (12 * h * layers));
  const ModelMetrics metrics = model_metrics(architecture("gpt3-175b"), 2048);
  EXPECT_DOUBLE_EQ(metrics.flops_per_token, expected);
  // Causal attention is half of the s / 6h term: 72 L h^2 * s / 12h = 6 L s h less.
  EXPECT_DOUBLE_EQ(metrics.flops_per_token_causal, expected - 6 * layers * s * h);
}

// arXiv 2307.09288 and 2407.21783 give 6 N D: 3.8e25 FLOPs for 405 B parameters and 15.6e12 tokens. Attention over
// 8192 tokens, which that leaves out, adds 12 L s H / 2 causally: 0.101e12 a token.
TEST(Llama3, TrainingFlopsOf405B) {
  const ModelMetrics metrics = model_metrics(architecture("llama-3-405b"), 8192);
  const double attention = 6.0 * 126 * 8192 * 16384;
  EXPECT_NEAR(metrics.flops_per_token_causal - attention, 3.8e25 / 15.6e12, 0.05e25 / 15.6e12);
}

// A window bounds the cost of attention for sequences of any length.
TEST(Mistral, AttentionFlopsFollowTheWindow) {
  const Architecture model = architecture("mistral-7b");
  Architecture all = model;
  all.window = {};
  // Per layer forward 2 (dk + dv) h = 4 * 4096 a key; three passes; 32 layers.
  const double per_key = 3.0 * 32 * 4 * 4096;
  const double without_attention = model_metrics(all, 1).flops_per_token - per_key;
  const auto keys = [&](const Architecture& a, std::int64_t sequence, bool causal) {
    const ModelMetrics metrics = model_metrics(a, sequence);
    return ((causal ? metrics.flops_per_token_causal : metrics.flops_per_token) - without_attention) / per_key;
  };
  EXPECT_DOUBLE_EQ(keys(model, 4096, false), 4096);  // the window does not bind
  EXPECT_DOUBLE_EQ(keys(model, 4096, true), 2048);
  EXPECT_DOUBLE_EQ(keys(all, 32768, true), 16384);
  // Of 32768 queries the first 4096 see half a window on average, the others all of it: 4096 - 4096 / 16.
  EXPECT_DOUBLE_EQ(keys(model, 32768, true), 3840);
  EXPECT_DOUBLE_EQ(keys(model, 32768, false), 4096);
}

// Returns the beginning of a model's row in the table of docs/models.md, to the last count.
std::string row_of_models_page(const std::string& name) {
  const Architecture model = architecture(name);
  const ModelMetrics metrics = model_metrics(model, 1024);
  const double states = request_state_bytes(model);
  return fmt::format("\n| {} | {} | {:.2f} B | {:.2f} B | {:.1f} kB |{} |", name, model.model_type,
                     metrics.parameters / 1e9, metrics.active_parameters / 1e9,
                     cache_bytes(model, DataType::bf16, 1, 1) / 1e3,
                     states > 0 ? fmt::format(" {:.1f} MB", states / 1e6) : "");
}

TEST(ModelsPage, HasTheCountsOfEachShippedModel) {
  const auto page = read_text_file(tests::shipped("docs/models.md"));
  ASSERT_TRUE(page);
  int models = 0;
  for (const auto& file : std::filesystem::directory_iterator(tests::shipped("examples/models"))) {
    const std::string name = file.path().stem().string();
    if (name == "tiny-moe") continue;  // of the tests
    EXPECT_NE(page->find(row_of_models_page(name)), std::string::npos) << row_of_models_page(name);
    ++models;
  }
  EXPECT_GT(models, 0);
}

}  // namespace
}  // namespace plumbline::model
