#include "sim/predict/predicted_run.h"

#include "model/economics/economics.h"
#include "sim/campaign/campaign.h"

namespace plumbline::sim {

std::optional<model::RunCost> predicted_run(const Inputs& inputs, const model::Plan& plan,
                                            const model::StepTimes& step) {
  std::optional<model::CampaignGoodput> goodput;
  if (inputs.campaign && plan.run.tokens) {
    CampaignInput campaign = *inputs.campaign;
    const auto tokens_per_step = static_cast<double>(plan.batch.global_batch_size * plan.batch.sequence_length);
    campaign.phases = {{"", *plan.run.tokens, tokens_per_step, step.time_s}};
    goodput = {expected_goodput(campaign), "the campaign's failures and checkpoints, in closed form"};
  }
  return model::run_cost(plan, step.time_s, inputs.cluster, step.gpu_power_w, goodput);
}

}  // namespace plumbline::sim
