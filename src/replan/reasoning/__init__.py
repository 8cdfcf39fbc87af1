"""What models are asked: prompts, typed answers, and the stages that are made of them."""
