"""Operations as text: any trace can be written so and read back."""
