//! The table of the kinds of `[data]`.

use crate::kind::Kind;

/// Every kind of data.
pub const KINDS: &[Kind] = &[
    Kind {
        kind: "text",
        summary: "text files, folders, patterns, JSONL, Parquet, Arrow; plain, gzip or Zstandard; weighted mixtures",
        source: "windows as in nanoGPT; packed documents as in GPT-2 and GPT-3",
        example: "[data]\nkind = \"text\"\npath = \"tinyshakespeare/input.txt\"\ncontext = 256",
    },
    Kind {
        kind: "arithmetic",
        summary: "12+34=046: whole numbers, answers never seen in training",
        source: "Brown et al., arXiv:2005.14165, section 3.9; Lee et al., arXiv:2307.03381 (reversed answers)",
        example: "[data]\nkind = \"arithmetic\"\ndigits = 2",
    },
    Kind {
        kind: "copy",
        summary: "copying strings: abc=abc",
        source: "Graves et al., arXiv:1410.5401, section 4.1",
        example: "[data]\nkind = \"copy\"\nlength = 12",
    },
    Kind {
        kind: "reverse",
        summary: "reversing strings: abc=cba",
        source: "Sutskever et al., arXiv:1409.3215, on reversing",
        example: "[data]\nkind = \"reverse\"\nlength = 12",
    },
    Kind {
        kind: "sort",
        summary: "sorting strings: bca=abc",
        source: "Graves et al., arXiv:1410.5401, section 4.5",
        example: "[data]\nkind = \"sort\"\nlength = 12",
    },
    Kind {
        kind: "random_tokens",
        summary: "uniformly random tokens, for measuring speed",
        source: "",
        example: "[data]\nkind = \"random_tokens\"\nvocab_size = 50257\ncontext = 1024",
    },
    Kind {
        kind: "pairs",
        summary: "parallel text: two files line by line, TSV, JSONL, Parquet or Arrow; plain or packed",
        source: "Sutskever et al., arXiv:1409.3215; Vaswani et al., arXiv:1706.03762",
        example: "[data]\nkind = \"pairs\"\nsource = \"multi30k/train.en\"\ntarget = \"multi30k/train.de\"",
    },
    Kind {
        kind: "dates",
        summary: "dates, a translation that needs no file: the 3rd of May 1998 to 1998-05-03",
        source: "",
        example: "[data]\nkind = \"dates\"",
    },
    Kind {
        kind: "number_words",
        summary: "number words to digits: four hundred and seven to 407",
        source: "",
        example: "[data]\nkind = \"number_words\"",
    },
    Kind {
        kind: "random_pairs",
        summary: "uniformly random pairs, for measuring speed",
        source: "",
        example: "[data]\nkind = \"random_pairs\"\nvocab_size = 8000\nsource_len = 32\ntarget_len = 32",
    },
    Kind {
        kind: "images",
        summary: "images with classes: IDX, CIFAR, folders of PNG and JPEG, also as sequences of pixels; crop, flip, \
                  RandAugment, erasing, mixup, cutmix",
        source: "augmentation: Cubuk et al., arXiv:1909.13719; Zhong et al., arXiv:1708.04896; Zhang et al., \
                 arXiv:1710.09412; Yun et al., arXiv:1905.04899",
        example: "[data]\nkind = \"images\"\npath = \"fashion_mnist/train-images-idx3-ubyte.gz\"\n\
                  labels = \"fashion_mnist/train-labels-idx1-ubyte.gz\"\naugment = { crop = 2, flip = true }",
    },
    Kind {
        kind: "shapes",
        summary: "drawn circles, squares, triangles and other shapes, at random positions and angles, in noise",
        source: "",
        example: "[data]\nkind = \"shapes\"\nsize = 28",
    },
    Kind {
        kind: "random_images",
        summary: "images of noise, for measuring speed",
        source: "",
        example: "[data]\nkind = \"random_images\"\nheight = 28\nwidth = 28",
    },
    Kind {
        kind: "captioned_images",
        summary: "images with captions: PNG and JPEG files named in a TSV, CSV or JSONL table; crop, flip, RandAugment, erasing",
        source: "Radford et al., arXiv:2103.00020; a table as `metadata.jsonl` of Hugging Face's image folders",
        example: "[data]\nkind = \"captioned_images\"\npath = \"pictures/metadata.jsonl\"\nsize = [64, 64]\nchannels = 3",
    },
    Kind {
        kind: "captioned_shapes",
        summary: "drawn shapes with captions: a red circle left of a blue square; test combinations never seen in training",
        source: "",
        example: "[data]\nkind = \"captioned_shapes\"",
    },
    Kind {
        kind: "transcribed_speech",
        summary: "recordings of speech with transcripts: WAV and FLAC beside metadata.csv, metadata.jsonl or LibriSpeech's lines",
        source: "speech recognition as in LibriSpeech, Panayotov et al. 2015; features of Radford et al., arXiv:2212.04356",
        example: "[data]\nkind = \"transcribed_speech\"\npath = \"LibriSpeech/train-clean-100\"\nvalid_path = \"LibriSpeech/dev-clean\"",
    },
    Kind {
        kind: "dialled_digits",
        summary: "generated telephone numbers as dialling tones, with the digits as transcript",
        source: "ITU-T Recommendation Q.23",
        example: "[data]\nkind = \"dialled_digits\"",
    },
    Kind {
        kind: "labelled_text",
        summary: "texts or pairs of texts with a class or a number: TSV, CSV, JSONL, Parquet, Arrow; plain or packed",
        source: "sentence and pair classification as in GLUE, Wang et al., arXiv:1804.07461",
        example: "[data]\nkind = \"labelled_text\"\npath = \"sst2/train.tsv\"\nvalid_path = \"sst2/dev.tsv\"",
    },
    Kind {
        kind: "tagged_text",
        summary: "sentences with a tag for each word: CoNLL, CoNLL-U, JSONL, Parquet, Arrow; plain or packed",
        source: "CoNLL-2003, Tjong Kim Sang and De Meulder, W03-0419; CoNLL-U, Universal Dependencies",
        example: "[data]\nkind = \"tagged_text\"\npath = \"wnut17/wnut17train.conll\"\nvalid_path = \"wnut17/emerging.dev.conll\"",
    },
    Kind {
        kind: "conversations",
        summary: "messages of a user and an assistant, trained on the answers; any table with a template for each message",
        source: "Ouyang et al., arXiv:2203.02155; transformers' chat templates",
        example: "[data]\nkind = \"conversations\"\npath = \"chats.jsonl\"\ncontext = 512",
    },
    Kind {
        kind: "preferences",
        summary: "prompts with a better and a worse continuation, as texts or as messages",
        source: "Ouyang et al., arXiv:2203.02155; Rafailov et al., arXiv:2305.18290",
        example: "[data]\nkind = \"preferences\"\npath = \"preferences.jsonl\"\ncontext = 512",
    },
    Kind {
        kind: "questions",
        summary: "questions with answers in a context: SQuAD JSON (version 1.1 or 2.0), or rows of JSONL, Parquet or Arrow",
        source: "Rajpurkar et al., arXiv:1606.05250, arXiv:1806.03822",
        example: "[data]\nkind = \"questions\"\npath = \"squad_part/dev_v2_5_articles.json.gz\"\nvalid_fraction = 0.2",
    },
    Kind {
        kind: "grammar",
        summary: "stories of a small made-up world, for masked and next-token models",
        source: "",
        example: "[data]\nkind = \"grammar\"",
    },
    Kind {
        kind: "people",
        summary: "letters about invented people, whose facts are in a register; text for retrieval from similar texts",
        source: "",
        example: "[data]\nkind = \"people\"",
    },
    Kind {
        kind: "listops",
        summary: "[MAX 2 9 [MIN 4 7 ] 0 ] is 9: nested operations, classified by value",
        source: "Nangia and Bowman, arXiv:1804.06028; at 500 to 2,000 tokens Tay et al., arXiv:2011.04006",
        example: "[data]\nkind = \"listops\"",
    },
    Kind {
        kind: "themes",
        summary: "short texts with the themes that they mention, any number of six",
        source: "",
        example: "[data]\nkind = \"themes\"",
    },
    Kind {
        kind: "right_and_wrong",
        summary: "sums with a right and a wrong answer: 12+34=046 before 12+34=048",
        source: "",
        example: "[data]\nkind = \"right_and_wrong\"",
    },
    Kind {
        kind: "articles",
        summary: "an article's lead from its title and its other paragraphs, ranked by tf-idf",
        source: "Liu et al., arXiv:1801.10198, sections 2 and 4.1",
        example: "[data]\nkind = \"articles\"\npath = \"wikitext2/train.txt\"\nvalid_path = \"wikitext2/valid.txt\"",
    },
    Kind {
        kind: "article_halves",
        summary: "pairs of texts with the class whether they are halves of one article, from files in WikiText's format",
        source: "after the retrieval of Tay et al., arXiv:2011.04006, section 2.2",
        example: "[data]\nkind = \"article_halves\"\npath = \"wikitext2/train.txt\"\nvalid_path = \"wikitext2/valid.txt\"",
    },
    Kind {
        kind: "pathfinder",
        summary: "drawn images with the class whether a dashed path joins two circles; also as sequences of pixels",
        source: "Linsley et al., arXiv:1805.08315; Tay et al., arXiv:2011.04006, section 2.2",
        example: "[data]\nkind = \"pathfinder\"",
    },
    Kind {
        kind: "none",
        summary: "no examples: the data of a run that `formwork import` made",
        source: "",
        example: "[data]\nkind = \"none\"\ngives = \"text\"\ncontext = 1024",
    },
];
