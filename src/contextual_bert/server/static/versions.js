// What was said to one version of the model and means something to the next. It draws nothing and asks nothing.

// state: changed in place; before and after: what /v1/schema said of the two versions.
export function fit(state, before, after) {
  const stays = (list, name) => isAlike(before[list], after[list], name);
  fitPeople(state, before, after);
  const { constraints } = state;
  constraints.conditions = constraints.conditions.filter((each) => stays("attributes", each.attribute));
  if (!stays("attributes", constraints.at_most_one_per)) constraints.at_most_one_per = "";
  if (!stays("attributes", "category")) state.places.forEach((place) => delete place.category);
  if (!stays("attributes", "price")) constraints.max_price = state.together.budget = "";
  if (!after.attributes.length) constraints.in_stock = false;
}

// The same of what is known of people alone.
export function fitPeople({ people }, before, after) {
  for (const { context } of people) {
    for (const name of Object.keys(context)) if (!isAlike(before.features, after.features, name)) delete context[name];
  }
}

function isAlike(before, after, name) {
  const [old, now] = [before, after].map((list) => list.find((each) => each.name === name));
  return old?.kind === now?.kind && Boolean(old?.values) === Boolean(now?.values);
}
