"""The published recipe in plain PyTorch, alone: python bench/plain.py [--dataset wn18rr --form 5star --wide …]"""

from conjoin.bench.plain_alone import main

if __name__ == "__main__":
    main()
